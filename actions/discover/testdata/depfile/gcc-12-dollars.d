dol.o: dol.cc dd/a$$$$b.h dd/t\	b.h dd/end\\\ 
