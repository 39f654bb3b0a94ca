dol.o : dol.cu \
    dd/a$$b.h \
    dd/t	b.h
