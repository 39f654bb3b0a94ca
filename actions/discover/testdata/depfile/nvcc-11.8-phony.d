o$.o : ab.cu \
    inc\ dir/sp\ ace.h \
    p$q/d$l.h \
    h#sh/x#y.h \
    ünï/ß.h \
    co:lon.h

inc\ dir/sp\ ace.h:

p$q/d$l.h:

h#sh/x#y.h:

ünï/ß.h:

co:lon.h:
